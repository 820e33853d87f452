#!/usr/bin/python3
"""Makes the corpus: PDF files of many producers, and what must be read from them.

The programs are Debian's: chromium libreoffice-writer-nogui weasyprint texlive-latex-recommended texlive-fonts-recommended
texlive-xetex ghostscript groff enscript fop qpdf mupdf-tools poppler-utils python3-reportlab python3-cairo python3-pikepdf
fonts-dejavu-core fonts-liberation. Tests do not need them: the files are committed.
"""
import json, os, sys, tempfile
from invoices import *
import producers

HERE = os.path.dirname(os.path.abspath(__file__))
OUT = os.path.join(HERE, "corpus")
LAYOUTS = [("plain", plain), ("blocks", blocks), ("headings", headings), ("spaced", spaced), ("columns", two_columns)]


def main():
    only = sys.argv[1:]
    table_of = {}
    path = os.path.join(OUT, "expected.json")
    if only and os.path.exists(path):
        table_of = json.load(open(path))
    with tempfile.TemporaryDirectory() as tmp:
        for name, producer, inv, make, lines in jobs():
            if only and not any(name.startswith(o) for o in only):
                continue
            target = os.path.join(OUT, name + ".pdf")
            work = os.path.join(tmp, name)
            os.mkdir(work)
            make(work, target)
            print(f"{name}: {os.path.getsize(target)} bytes")
            table_of[name + ".pdf"] = dict(producer=producer, fields=printed(producer, expected(inv)), rows=[l for l in lines if l != "@PROSE"],
                                          prose=prose_of(name))
    with open(path, "w") as f:
        json.dump(table_of, f, indent=1, ensure_ascii=False, sort_keys=True)
        f.write("\n")


def printed(producer, fields):
    """TeX and PostScript's Latin 1 print a typographic apostrophe."""
    if producer in ("pdfTeX", "XeTeX", "Ghostscript"):
        return {k: v.replace("'", "’") for k, v in fields.items()}
    return fields


def prose_of(name):
    """The texts that must be read without interruption."""
    if name == "latex-multicol":
        return [" ".join(PROSE)]
    return PROSE if name.endswith("-columns") or name == "fop-times" else []


def jobs():
    """Yields name, producer, invoice, function and expected rows of each file."""
    for producer in ("chromium", "weasyprint", "libreoffice"):
        convert = getattr(producers, producer)
        for i, (layout, make) in enumerate(LAYOUTS):
            inv = INVOICES[(i + len(producer)) % len(INVOICES)]
            lines = rows()
            if layout == "spaced":
                lines = lines + ["INVOICE NOTE"]
            if layout == "columns":
                lines = []
            yield f"{producer}-{layout}", producer, inv, (lambda w, t, c=convert, h=make(inv): c(w, t, h)), lines
        inv = INVOICES[len(producer) % 3]
        html, some = several_pages(inv)
        yield f"{producer}-pages", producer, inv, (lambda w, t, c=convert, h=html: c(w, t, h)), rows(some)
    yield from producers.jobs()


if __name__ == "__main__":
    main()
