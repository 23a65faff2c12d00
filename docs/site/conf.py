"""How Sphinx builds the documentation from what `python -m scripts.site` has put together; see `make docs`."""

project = "The checkpoint kit"
html_title = "The checkpoint kit"
copyright = "the authors of the checkpoint kit"
extensions = ["myst_nb", "scripts.site.names"]

# Notebooks are shown with the outputs that are stored in them: those are the ones that `make test` compares, so the
# site shows nothing that is not checked, and building it needs neither Java nor minutes.
nb_execution_mode = "off"
nb_ipywidgets_js = {}  # widgets are shown by what they leave in a notebook; their scripts would come from elsewhere
nb_number_source_lines = False

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
suppress_warnings = ["ref.python"]  # a type in a signature may be that of several modules

is_quick = tags.has("quick")  # type: ignore[name-defined]  # noqa: F821 (Sphinx puts it here)
"""True for a build that only checks: without a theme, an index for the search, or typographic quotes."""
smartquotes = not is_quick
html_theme = "basic" if is_quick else "furo"
html_static_path = ["_static"]
html_css_files = ["kit.css"]
html_show_sourcelink = False
html_show_sphinx = False
html_copy_source = False
templates_path = []
pygments_style = "tango"
pygments_dark_style = "github-dark"
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
    """Called by Sphinx."""
    if is_quick:
        app.connect("builder-inited", lambda app: setattr(app.builder, "search", False))
