"""The configuration of Sphinx, which builds the documentation from the pages of `python -m scripts.site`."""

from pathlib import Path

project = "The checkpoint kit"
html_title = "The checkpoint kit"
copyright = "the authors of the checkpoint kit"
extensions = ["myst_nb", "scripts.site.names"]

# Notebooks are shown with their stored outputs. `make test` compares these, so the site shows only checked outputs, and
# building it takes neither Java nor minutes.
nb_execution_mode = "off"
nb_ipywidgets_js = {}  # widgets are shown in their static form, because their scripts would come from another host
nb_number_source_lines = False

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
suppress_warnings = ["ref.python"]  # a type in a signature may exist in several modules

is_quick = tags.has("quick")  # type: ignore[name-defined]  # noqa: F821 (Sphinx puts it here)
"""True for a build that only checks: without a theme, a search index, or typographic quotes."""
smartquotes = not is_quick
html_theme = "basic" if is_quick else "furo"
html_static_path = ["_static"]
html_search_scorer = str(Path(__file__).with_name("scorer.js"))  # the course and the scenarios come before the API
html_css_files = ["kit.css"]
html_js_files = ["scrollers.js", "kit.js"]
html_show_sourcelink = False
html_show_sphinx = False
html_copy_source = False
templates_path = []
pygments_style = "a11y-high-contrast-light"  # every colour has a contrast of 7 on its ground
pygments_dark_style = "github-dark-high-contrast"
html_theme_options = (
    {}
    if is_quick
    else {
        "light_css_variables": {"color-brand-primary": "#0072b2", "color-brand-content": "#0072b2"},
        "dark_css_variables": {"color-brand-primary": "#56b4e9", "color-brand-content": "#56b4e9"},
        "top_of_page_buttons": [],
    }
)
add_module_names = False
python_use_unqualified_type_names = True
toc_object_entries = False


def setup(app):
    """Skip the search index in a quick build; Sphinx calls this."""
    if is_quick:
        app.connect("builder-inited", lambda app: setattr(app.builder, "search", False))
