"""The checks of the built site find what is wrong; ``make docs`` runs them on all of it."""

import pytest
import site_links

PAGE = '<html><h1 id="here">x</h1><a name="old"></a>{}</html>'


@pytest.fixture
def site(tmp_path):
    (tmp_path / "guide").mkdir()
    (tmp_path / "_static").mkdir()
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "guide" / "index.html").write_text(PAGE)
    (tmp_path / "picture.svg").write_text("<svg/>")
    (tmp_path / "_static" / "template.html").write_text('<a href="{{ nothing }}">')

    def problems(link, name="index.html"):
        (tmp_path / name).write_text(PAGE.format(link))
        return site_links.problems(tmp_path)

    return problems


@pytest.mark.parametrize(
    "link",
    [
        "guide/index.html", "guide/", "guide/index.html#here", "guide/#old", "#here", "#", "picture.svg",
        "guide/index.html?q=1#here", "https://example.org/a?b=c#d", "http://example.org:80", "mailto:a@example.org",
        "data:image/png;base64,xyz", "guide%2Findex.html",
    ],
)  # fmt: skip
def test_links_that_lead_somewhere(site, link):
    assert site(f'<a href="{link}">') == []


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("nothing.html", "no such file"),
        ("guide/nothing.html#here", "no such file"),
        ("guide/index.html#nothing", "no such place"),
        ("#nothing", "no such place"),
        ("../outside.html", "leaves the site"),
        ("https://example/a", "no address"),
        ("https://example.org/a b", "no address"),
        ("htp://example.org", "unknown scheme 'htp'"),
        ("mailto:nobody", "no address"),
    ],
)
def test_links_that_lead_nowhere(site, link, problem):
    assert site(f'<a href="{link}">') == [f"index.html: {link}: {problem}"]


def test_pictures_cards_and_lists_have_links_as_well(site, tmp_path):
    assert site('<img src="a.png" srcset="picture.svg, b.png 2x"><meta property="og:image" content="c.png">') == [
        "index.html: a.png: no such file",
        "index.html: b.png: no such file",
        "index.html: c.png: no such file",
    ]
    assert site('<meta property="og:title" content="no link">') == []
    (tmp_path / "llms.txt").write_text("- [A](guide/index.html)\n- [B](gone.html): text\n")
    assert site("") == ["llms.txt: gone.html: no such file"]
