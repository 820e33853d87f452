#!/usr/bin/python3
"""Makes files in layouts that were not looked at while the reader was written, to see how it does on new ones."""
import json, os, tempfile
import producers
from invoices import *

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "unseen")
SERIF = "body { font: 10pt 'Liberation Serif', serif }"


def leaders(inv):
    """Dots between label and value, and taxes before the total."""
    lines = "".join(f"<p>{l} {'.' * 24} {escape(inv[k])}</p>" for l, k in LABELS)
    return page(f"<p>Northwind Supplies Ltd, Harbour Road 1, Hull</p><hr>{lines}{address(inv)}{table(ITEMS)}<p>Subtotal: 163.50</p><p>VAT 20 %: 32.70</p><p>Total: {escape(inv['total'])}</p>", SERIF)


def stacked(inv):
    """Small labels above their values, in three columns, and the total in a box."""
    cells = "".join(f"<td width='33%'><small>{l}</small><br><b>{escape(inv[k])}</b></td>" + ("</tr><tr>" if i == 2 else "") for i, (l, k) in enumerate(LABELS))
    return page(f"<h3>Northwind Supplies</h3><table width='100%' cellspacing=8><tr>{cells}</tr></table>{address(inv)}{table(ITEMS)}"
                f"<table border=1 align=right><tr><td>Amount due</td><td align=right><b>{escape(inv['total'])}</b></td></tr></table>")


def receipt(inv):
    """A narrow receipt in a small monospaced font."""
    lines = "".join(f"<tr><td>{l}:</td><td align=right class=r>{escape(inv[k])}</td></tr>" for l, k in LABELS)
    return page(f"<div class=n><center>NORTHWIND</center><table width='100%'>{lines}</table>{address(inv)}{table(ITEMS)}"
                f"<table width='100%'><tr><td>Total</td><td align=right class=r>{escape(inv['total'])}</td></tr></table></div>",
                "body { font: 8pt 'DejaVu Sans Mono', monospace } .n { width: 95mm } td { padding: 1pt }")


def letter(inv):
    """A letter: sender and recipient side by side, fields in sentences of their own, a footer in three columns."""
    lines = "".join(f"<b>{l}:</b> {escape(inv[k])}<br>" for l, k in LABELS)
    foot = "".join(f"<td>{t}</td>" for t in ("Northwind Supplies Ltd<br>Harbour Road 1<br>Hull", "Bank of Hull<br>IBAN GB00 1234 5678<br>BIC HULLGB2L", "Directors: A. Smith<br>Registered in Hull<br>No. 445566"))
    return page(f"<table width='100%'><tr><td width='50%'>{address(inv, 'Delivery address')}</td><td><p>Northwind Supplies<br>Harbour Road 1<br>HU2 2AA Hull</p></td></tr></table>"
                f"<p>{lines}</p><p>Dear customer, we charge you for the following goods, which you ordered from us last week.</p>{table(ITEMS, 1, inv['total'])}<p>Yours faithfully</p><table width='100%'><tr>{foot}</tr></table>", SERIF)


def main():
    os.makedirs(OUT, exist_ok=True)
    want = {}
    with tempfile.TemporaryDirectory() as tmp:
        for p, producer in enumerate(("chromium", "weasyprint", "libreoffice")):
            for i, make in enumerate((leaders, stacked, receipt, letter)):
                inv = INVOICES[(2 * i + p) % len(INVOICES)]
                name = f"{producer}-{make.__name__}.pdf"
                work = os.path.join(tmp, name)
                os.mkdir(work)
                getattr(producers, producer)(work, os.path.join(OUT, name), make(inv))
                want[name] = dict(producer=producer, fields=expected(inv), rows=rows(), prose=[])
    with open(os.path.join(OUT, "expected.json"), "w") as f:
        json.dump(want, f, indent=1, ensure_ascii=False, sort_keys=True)
        f.write("\n")


if __name__ == "__main__":
    main()
