"""The invoices of the corpus, and their layouts as HTML."""
from html import escape

# Each has the fields as they are printed, and as they are expected.
INVOICES = [
    dict(number="NW-1001", date="7 November 2026", customer="Tower Avenue Traders", total="EUR 1.234,50",
         address=["Tower Avenue Traders", "17 Wharf Yard", "HU1 1TA Hull"], contact="billing@tower.example",
         reference="PO 4711/A", terms="30 days net", want=dict(date="2026-11-07", total="1234.50")),
    dict(number="2026-000815", date="2026-11-09", customer="Müller & Söhne GmbH", total="163.50 EUR",
         address=["Müller & Söhne GmbH", "Lager Süd, Tor 4", "80331 München"], contact="rechnung@mueller.example",
         reference="Kostenstelle 77", terms="14 days, 2 % discount", want=dict(date="2026-11-09", total="163.50")),
    dict(number="A/26/0042", date="11/09/2026", customer="Office, File & Fluff Ltd", total="$ 9,876.05",
         address=["Office, File & Fluff Ltd", "Suffolk Affairs Building", "5 Cliff Walk", "IP4 1AB Ipswich"],
         contact="first.office@fluff.example", reference="Staff offsite", terms="Due on receipt",
         want=dict(date="2026-09-11", total="9876.05")),
    dict(number="INV 55-7", date="1.12.2026", customer="Česká Kancelář s.r.o.", total="CHF 12'000.40",
         address=["Česká Kancelář s.r.o.", "Příkopy 12", "110 00 Praha 1"], contact="ucetni@kancelar.example",
         reference="Zakázka č. 9", terms="60 days", want=dict(date="2026-12-01", total="12000.40")),
    dict(number="RE-77120", date="Nov 30, 2026", customer="AVAToY Waves, Inc.", total="€ 77,00",
         address=["AVAToY Waves, Inc.", "1 Yacht Way", "Key West FL 33040"], contact="ap@avatoy.example",
         reference="Wave 7", terms="Prepaid", want=dict(date="2026-11-30", total="77.00")),
    dict(number="F2026/311", date="31 Oct 2026", customer="Société L'Été", total="EUR 2 450,99",
         address=["Société L'Été", "8 rue de l'Œuvre", "69001 Lyon"], contact="compta@ete.example",
         reference="Devis n° 12", terms="30 jours fin de mois", want=dict(date="2026-10-31", total="2450.99")),
]
ITEMS = [("Copy paper A4", "10", "12.00", "120.00"), ("Ring binders", "4", "3.50", "14.00"), ("Fine tip pens", "25", "1.18", "29.50")]
PROSE = [
    "Thank you for your order. The goods left our warehouse on the day of this invoice and travel at our risk until "
    "you receive them. Please check each parcel for damage before you sign for it.",
    "Our terms of sale apply. We keep the title to the goods until they are paid. Questions about this invoice reach us "
    "by telephone on working days between nine and five, or in writing at any time.",
]
ASCII = [0, 2, 4]  # invoices that fonts without accents can show


def expected(inv):
    out = {k: inv[k] for k in ("number", "customer", "contact", "reference", "terms")}
    out["address"] = ", ".join(inv["address"])
    out.update(inv["want"])
    return out


def rows(items=ITEMS):
    return [" ".join(i) for i in items]


LABELS = [("Invoice number", "number"), ("Date", "date"), ("Bill to", "customer"), ("Your reference", "reference"),
          ("Payment terms", "terms"), ("Contact", "contact")]


def page(body, style=""):
    return f"""<!DOCTYPE html><html><head><meta charset="utf-8"><title>Invoice</title><style>
body {{ font: 11pt 'Liberation Sans', sans-serif; margin: 0 }} td, th {{ padding: 2pt 6pt; text-align: left; vertical-align: top }}
.r {{ text-align: right }} {style}</style></head><body>{body}</body></html>"""


def table(items, border=0, total=None):
    cells = "".join(f"<tr><td>{a}</td><td class=r align=right>{b}</td><td class=r align=right>{c}</td><td class=r align=right>{d}</td></tr>" for a, b, c, d in items)
    last = f"<tr><td colspan=3><b>Total</b></td><td class=r align=right><b>{escape(total)}</b></td></tr>" if total else ""
    return f"<table width='100%' border={border} cellspacing=0><tr><th>Description</th><th class=r align=right>Qty</th><th class=r align=right>Price</th><th class=r align=right>Amount</th></tr>{cells}{last}</table>"


def address(inv, label="Deliver to"):
    return f"<p>{label}:<br>" + "<br>".join(escape(l) for l in inv["address"]) + "</p>"


def plain(inv):
    """Lines with a label and a value, and items without lines."""
    lines = "".join(f"<p>{l}: {escape(inv[k])}</p>" for l, k in LABELS)
    return page(f"<h1>Invoice</h1>{lines}{address(inv)}{table(ITEMS)}<p>Total: {escape(inv['total'])}</p>")


def blocks(inv):
    """The address on the left, a table of labels and values on the right."""
    meta = "".join(f"<tr><td>{l}</td><td class=r align=right>{escape(inv[k])}</td></tr>" for l, k in LABELS)
    return page(f"<table width='100%'><tr><td width='45%'>{address(inv)}</td><td><table width='100%'>{meta}</table></td></tr></table>"
                f"<h2>Invoice</h2>{table(ITEMS, 1, inv['total'])}")


def headings(inv):
    """Labels in one row and their values in the next, with lines."""
    def grid(some):
        return ("<table width='100%' border=1 cellspacing=0><tr>" + "".join(f"<th>{l}</th>" for l, k in some) + "</tr><tr>" +
                "".join(f"<td>{escape(inv[k])}</td>" for l, k in some) + "</tr></table><br>")
    return page(f"<h2>Invoice</h2>{grid(LABELS[:3])}{grid(LABELS[3:])}{address(inv, 'Delivery address')}{table(ITEMS, 0)}"
                f"<p class=r align=right>Amount due: {escape(inv['total'])}</p>")


def spaced(inv):
    """A title with wide letters, labels in capitals, and a total in large type."""
    lines = "".join(f"<tr><td>{l.upper()}</td><td>{escape(inv[k])}</td></tr>" for l, k in LABELS)
    return page(f"<div class=t>INVOICE NOTE</div><table>{lines}</table>{address(inv)}{table(ITEMS, 1)}"
                f"<table width='100%'><tr><td>Total due</td><td class=b align=right>{escape(inv['total'])}</td></tr></table>",
                ".t { letter-spacing: 0.5em; font-size: 18pt; font-weight: bold; margin: 12pt 0 } .b { font-size: 16pt; text-align: right }")


def two_columns(inv):
    """Text in two columns below the fields."""
    lines = "".join(f"<p>{l}: {escape(inv[k])}</p>" for l, k in LABELS)
    cols = "".join(f"<td width='50%' style='padding-right:18pt'>{t}</td>" for t in PROSE)
    return page(f"{lines}{address(inv)}<p>Total: {escape(inv['total'])}</p><table width='100%'><tr>{cols}</tr></table>")


def several_pages(inv):
    """Eighty items on several pages, and the total on the last one."""
    many = [(f"Item {i:03d} of paper", str(i), "1.25", f"{i * 1.25:.2f}") for i in range(1, 81)]
    lines = "".join(f"<p>{l}: {escape(inv[k])}</p>" for l, k in LABELS)
    return page(f"<h1>Invoice</h1>{lines}{address(inv)}{table(many, 0, inv['total'])}"), many[::20]
