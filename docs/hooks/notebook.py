"""The pages of notebooks: text as it is, code as code blocks."""

import json

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook of docs/, with a link to the notebook."""
    for file in [item for item in files if item.src_uri.endswith(".ipynb")]:
        cells = json.loads(file.content_string)["cells"]
        parts = [_write_cell(cell["cell_type"], "".join(cell["source"])) for cell in cells]
        parts.insert(1, f"This page is a notebook: [download it]({file.src_uri}).")
        name = file.src_uri.removesuffix(".ipynb") + ".md"
        files.append(File.generated(config, name, content="\n\n".join(parts)))
    return files


def _write_cell(kind: str, text: str) -> str:
    return f"```python\n{text}\n```" if kind == "code" else text
