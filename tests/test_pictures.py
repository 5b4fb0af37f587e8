"""The pictures of "How it works" and of the guide can still be drawn of what the code computes."""

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[1] / "docs"
spec = importlib.util.spec_from_file_location("draw", DOCS / "pictures" / "draw.py")
draw = importlib.util.module_from_spec(spec)
spec.loader.exec_module(draw)


@pytest.mark.parametrize("picture", draw.PICTURES, ids=lambda picture: picture.__name__)
def test_a_picture_is_drawn_and_shown(picture, tmp_path):
    draw.save(picture, tmp_path)
    name = f"{picture.__name__}.svg"
    assert (tmp_path / name).read_text("utf-8").endswith("</svg>\n")
    assert (DOCS / "images" / name).is_file()
    pages = "".join(path.read_text("utf-8") for path in DOCS.glob("*/*.md"))
    assert f"images/{name}" in pages
