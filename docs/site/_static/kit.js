// What is wider than the page scrolls by itself, also by keyboard, and a screen reader says what it is.
addEventListener("load", () => {
  const wide = ".kit-shown, .kit-view, table.docutils, .output, div.highlight pre, .math, .table-wrapper";
  for (const each of document.querySelectorAll(wide)) {
    if (each.scrollWidth <= each.clientWidth || each.hasAttribute("tabindex")) continue;
    each.tabIndex = 0;
    if (each.tagName === "TABLE") continue;
    each.setAttribute("role", "region");
    const heading = each.closest("section")?.querySelector("h1, h2, h3, h4");
    each.setAttribute("aria-label", `Wide content of ${heading ? heading.firstChild.textContent : document.title}`);
  }
});
