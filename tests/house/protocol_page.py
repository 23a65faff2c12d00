"""`docs/protocol.svg` and `docs/protocol.pdf`: the protocol on one sheet, made from the tables of the code.

    python -m tests.house.protocol_page        writes both, the PDF with Chromium

A test compares the SVG with the present tables, and the name of the PDF's source with the SVG.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from zlib import crc32

from kit.draw.protocol.protocol_sheet import protocol_sheet
from tests.house.files import ROOT

SVG, PDF = ROOT / "docs" / "protocol.svg", ROOT / "docs" / "protocol.pdf"
PRINT = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-pdf-header-footer"]


def source_name(sheet: str) -> str:
    """Return the title of the PDF, which names the SVG that it was printed from."""
    return f"The checkpoint protocol, printed from {crc32(sheet.encode()):08x}"


def printed(sheet: str, target: Path) -> None:
    """Print the sheet to a PDF of one page of A4."""
    page = (
        f"<!doctype html><title>{source_name(sheet)}</title><style>@page {{ size: A4; margin: 0 }} "
        f"body {{ margin: 0 }} svg {{ width: 210mm; height: 296mm; display: block }}</style>{sheet}"
    )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "protocol.html")
        source.write_text(page, encoding="utf-8")
        profile = f"--user-data-dir={folder}/profile"
        subprocess.run(
            ["chromium", *PRINT, profile, f"--print-to-pdf={target}", source.as_uri()], check=True, capture_output=True
        )


if __name__ == "__main__":
    drawn = str(protocol_sheet())
    SVG.write_text(drawn, encoding="utf-8")
    printed(drawn, PDF)
    print(SVG, PDF)
