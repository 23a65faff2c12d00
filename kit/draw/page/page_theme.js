// Follow the reader's theme until it is changed by hand.
const dark = matchMedia("(prefers-color-scheme: dark)");
const themes = document.getElementById("theme");
function paint(isDark) {
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  themes.textContent = isDark ? "Light" : "Dark";
}
const system = () => paint(dark.matches);
dark.addEventListener("change", system);
themes.addEventListener("click", () => {
  dark.removeEventListener("change", system);
  paint(document.documentElement.dataset.theme !== "dark");
});
system();
