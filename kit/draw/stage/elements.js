// Build an element of the page. An attribute that is undefined or false is left out, and so is a child that is empty.
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (key === "class") node.className = value;
    else if (key === "click") node.addEventListener("click", value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== undefined && child !== ""));
  return node;
}
