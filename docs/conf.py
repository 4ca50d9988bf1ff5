"""Settings of Sphinx, and the directive `public`, which describes the names of Python modules. See
build.sh."""

import importlib
import os
import pathlib
import pkgutil
import re

from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

import sab
import sab.compat

project, version, release = "libsab", sab.__version__, sab.__version__
extensions = ["myst_parser", "breathe", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["generated", "code", "internals"]

html_theme = "furo"
html_title = f"libsab {release}"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_static_path, html_css_files = ["style.css"], ["style.css"]
html_extra_path = ["generated/extra"]  # what rustdoc wrote

myst_heading_anchors = 3

breathe_projects = {"libsab": os.path.abspath("generated/doxygen/xml")}
breathe_default_project = "libsab"
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}
breathe_show_include = False

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"members": True}
python_maximum_signature_line_length = 120
c_maximum_signature_line_length = 120


class Public(SphinxDirective):
    """``.. public:: MODULE...``: the public names of modules of the Python package, in the order in
    which they are defined."""

    required_arguments, final_argument_whitespace = 1, True

    def run(self):
        lines = []
        for name in self.arguments[0].split():
            module = importlib.import_module(f"sab.{name}")
            for public in (each for each in vars(module) if each in module.__all__):
                kind = "autoclass" if isinstance(getattr(sab, public), type) else "autofunction"
                lines += [f".. {kind}:: sab.{public}", ""]
        return self.parse_text_to_nodes("\n".join(lines))


def check_names(app, error):
    """Fails where a public name of the Python package is not in the reference, or one that another
    library has not in the table of migration.md."""
    if error is None:
        described = {entry[0] for entry in app.env.domains["py"].get_objects()}
        missing = [name for name in sab.__all__ if f"sab.{name}" not in described]
        migration = pathlib.Path(app.srcdir, "migration.md").read_text()
        for found in pkgutil.walk_packages(sab.compat.__path__, "sab.compat."):
            names = getattr(importlib.import_module(found.name), "__all__", [])
            missing += [found.name] if names and found.name not in described else []
            missing += [
                f"{name}, in migration.md"
                for name in names
                if not re.search(rf"`[^`]*\b{name}\b[^`]*`", migration)
            ]
        if missing:
            raise ExtensionError(f"not in the reference: {', '.join(missing)}")


def skip_field(app, kind, name, item, skip, options):
    """Fields of named tuples are in the signature; "Alias for field number 0" says nothing."""
    return True if type(item).__name__ == "_tuplegetter" else None


def setup(app):
    app.add_directive("public", Public)
    app.connect("autodoc-skip-member", skip_field)
    app.connect("build-finished", check_names)
