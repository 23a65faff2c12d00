// What is wider than the page scrolls by itself, also by keyboard, and a screen reader says what it is.
function reachAll() {
  for (const each of reach(document, ".kit-shown, table.docutils, .output, .math, .table-wrapper")) {
    if (each.tagName === "TABLE") continue;
    each.setAttribute("role", "region");
    const heading = each.closest("section")?.querySelector("h1, h2, h3, h4");
    each.setAttribute("aria-label", `Wide content of ${heading ? heading.firstChild.textContent : document.title}`);
  }
}
addEventListener("resize", reachAll);
document.addEventListener("toggle", reachAll, true); // a fold shows more

// On a narrow screen the rows of a table with many columns become lists; each value then needs the name of its column.
function nameCells() {
  for (const table of document.querySelectorAll("article table.docutils:has(th:nth-child(4))")) {
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, n) => { cell.dataset.column = names[n]; });
    table.classList.add("kit-columns");
  }
}

// On a narrow screen a picture scrolls, so that its words keep their size.
const narrow = matchMedia("(max-width: 46em)");
function keepSizes() {
  for (const each of document.querySelectorAll(".kit-shown > svg[viewBox]")) {
    each.style.minWidth = narrow.matches ? `${0.8 * each.viewBox.baseVal.width}px` : "";
  }
}
narrow.addEventListener("change", () => { keepSizes(); reachAll(); });

// A picture that is shown at less than half of its size is a link to the whole.
function linkPictures() {
  for (const each of document.querySelectorAll("article img")) {
    if (each.closest("a") || !each.clientWidth || each.naturalWidth < 2 * each.clientWidth) continue;
    const link = document.createElement("a");
    link.href = each.src;
    link.className = each.className; // a picture of one theme is hidden in the other, and so is its link
    each.replaceWith(link);
    link.append(each);
  }
}

addEventListener("load", () => {
  nameCells();
  keepSizes();
  reachAll();
  linkPictures();
  // The theme gives the captions of its contents the role of headings without a level.
  for (const each of document.querySelectorAll(".caption[role=heading]")) each.setAttribute("aria-level", "2");
});
