"""The producers of the corpus."""
import os, shutil, subprocess
from invoices import *


def run(*args, **kw):
    subprocess.run(args, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=180, **kw)


def write(path, text, encoding="utf-8"):
    with open(path, "w", encoding=encoding) as f:
        f.write(text)
    return path


def chromium(work, target, html):
    source = write(os.path.join(work, "a.html"), html)
    run("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + work + "/profile",
        "--no-pdf-header-footer", "--print-to-pdf=" + target, "file://" + source)


def weasyprint(work, target, html):
    run("weasyprint", write(os.path.join(work, "a.html"), html), target)


def libreoffice(work, target, html):
    # The export of web pages drops what comes first.
    source = write(os.path.join(work, "a.html"), html.replace("<body>", "<body><p>Northwind Supplies</p>"))
    run("soffice", "-env:UserInstallation=file:///tmp/docpdf-office", "--headless", "--convert-to", "pdf:writer_web_pdf_Export",
        "--outdir", work, source)
    shutil.move(os.path.join(work, "a.pdf"), target)


TEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "€": r"\texteuro{}"}


def tex(text):
    return "".join(TEX.get(c, c) for c in text)


def latex(inv, head, body):
    lines = "".join(r"\noindent " + l + ": " + tex(inv[k]) + r"\par" + "\n" for l, k in LABELS)
    where = r"\noindent Deliver to:\\ " + r"\\ ".join(tex(l) for l in inv["address"]) + r"\par"
    body = body.replace("@LINES@", lines).replace("@ADDRESS@", where).replace("@TOTAL@", tex(inv["total"]))
    return (r"\documentclass[11pt,a4paper]{article}" + "\n" + head + "\n" + r"\begin{document}\pagestyle{empty}\section*{Invoice}" +
            "\n" + body + "\n" + r"\end{document}")


def tabular(inv, spec="lrrr", line=""):
    end = r"\\" + line + "\n"
    items = end.join(" & ".join(i) for i in ITEMS) + end
    return r"\begin{tabular}{" + spec + "}" + line + " Description & Qty & Price & Amount " + end + items + r"\end{tabular}"


def run_latex(program):
    def make(work, target, source):
        write(os.path.join(work, "a.tex"), source)
        run(program, "-interaction=batchmode", "a.tex", cwd=work)
        shutil.move(os.path.join(work, "a.pdf"), target)
    return make


UTF8 = r"\usepackage[utf8]{inputenc}\usepackage{textcomp}"
T1 = UTF8 + r"\usepackage[T1]{fontenc}"


def latex_jobs():
    plain_body = "@LINES@ @ADDRESS@ \\medskip @TABLE@ \\medskip\n\n\\noindent Total: @TOTAL@"
    def body(inv, text, **kw):
        return text.replace("@TABLE@", tabular(inv, **kw))
    some = [
        ("latex-cm", 0, UTF8, plain_body, {}),                                    # OT1, Type 1, no ToUnicode
        ("latex-t1", 2, T1 + r"\usepackage{mathptmx}", plain_body, dict(spec="|l|r|r|r|", line=r"\hline")),
        ("latex-unicode", 2, UTF8 + r"\pdfgentounicode=1\input glyphtounicode ", plain_body, {}),
        ("latex-type3", 2, T1, plain_body, {}),                                  # bitmaps, no ToUnicode
        ("latex-helvetica", 5, T1 + r"\usepackage[scaled]{helvet}\renewcommand\familydefault{\sfdefault}", plain_body, {}),
        ("latex-ligatures", 4, UTF8, plain_body.replace("@TOTAL@", "77,00"), {}),
        ("latex-landscape", 1, T1 + r"\usepackage{mathptmx}\usepackage[landscape]{geometry}", plain_body, {}),
        ("latex-side", 1, T1 + r"\usepackage{mathptmx}", r"\noindent\begin{minipage}[t]{.45\textwidth}@ADDRESS@\end{minipage}\hfill\begin{minipage}[t]{.5\textwidth}@LINES@\end{minipage}\bigskip\par @TABLE@\par\hfill Total: @TOTAL@", {}),
    ]
    for name, n, head, text, kw in some:
        inv = INVOICES[n]
        source = latex(inv, head, body(inv, text, **kw))
        yield name, "pdfTeX", inv, (lambda w, t, s=source: run_latex("pdflatex")(w, t, s)), rows()
    inv = INVOICES[0]
    columns = "@LINES@ @ADDRESS@ \\noindent Total: @TOTAL@\n\n\\bigskip\n\\begin{multicols}{2}\\noindent " + " ".join(PROSE) + " \\end{multicols}"
    source = latex(inv, T1 + r"\usepackage{mathptmx}\usepackage{multicol}", columns)
    yield "latex-multicol", "pdfTeX", inv, (lambda w, t: run_latex("pdflatex")(w, t, source)), ["@PROSE"]
    for name, n, font in (("xelatex-dejavu", 3, "DejaVu Sans"), ("xelatex-serif", 2, "Liberation Serif")):
        inv = INVOICES[n]
        s = latex(inv, r"\usepackage{fontspec}\setmainfont{" + font + "}", body(inv, plain_body)).replace(r"\texteuro{}", "€")
        yield name, "XeTeX", inv, (lambda w, t, s=s: run_latex("xelatex")(w, t, s)), rows()


def reportlab_jobs():
    from reportlab.lib import colors
    from reportlab.lib.pagesizes import A4, landscape
    from reportlab.pdfbase import pdfmetrics
    from reportlab.pdfbase.ttfonts import TTFont
    from reportlab.pdfgen import canvas
    from reportlab.platypus import SimpleDocTemplate, Table, Paragraph, Spacer
    from reportlab.lib.styles import getSampleStyleSheet
    pdfmetrics.registerFont(TTFont("DejaVu", "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"))

    def lines(c, inv, x, y, font, step=16, right=None):
        c.setFont(font, 11)
        for l, k in LABELS:
            if right:
                c.drawString(x, y, l)
                c.drawRightString(right, y, inv[k])
            else:
                c.drawString(x, y, f"{l}: {inv[k]}")
            y -= step
        return y

    def rest(c, inv, x, y, font):
        c.setFont(font, 11)
        c.drawString(x, y, "Deliver to:")
        for l in inv["address"]:
            y -= 14
            c.drawString(x, y, l)
        y -= 20
        for a, b, p, d in ITEMS:
            y -= 15
            c.drawString(x, y, a)
            for v, at in ((b, 240), (p, 310), (d, 400)):
                c.drawRightString(x + at, y, v)
        y -= 25
        c.drawString(x, y, "Total")
        c.drawRightString(x + 400, y, inv["total"])

    def simple(inv, font, right=None, compress=1, upside=False):
        def make(work, target):
            c = canvas.Canvas(target, pagesize=A4, pageCompression=compress)
            if upside:  # the total first, as some programs write their pages
                rest(c, inv, 60, 600, font)
                lines(c, inv, 60, 780, font, right=right)
            else:
                lines(c, inv, 60, 780, font, right=right)
                rest(c, inv, 60, 600, font)
            c.save()
        return make

    def turned(inv, rotate):
        def make(work, target):
            c = canvas.Canvas(target, pagesize=A4)
            if rotate:
                c.setPageRotation(rotate)
            w, h = A4
            c.saveState()
            if rotate in (0, 90):  # text that reads upwards; upright after a turn of 90 degrees clockwise
                c.translate(w, 0)
                c.rotate(90)
            elif rotate == 270:
                c.translate(0, w)  # ReportLab exchanges the sides of the page
                c.rotate(-90)
            elif rotate == 180:
                c.translate(w, h)
                c.rotate(180)
            y = lines(c, inv, 60, 540 if rotate != 180 else 780, "Helvetica")
            rest(c, inv, 60, y - 10, "Helvetica")
            c.restoreState()
            c.save()
        return make

    def letters(inv):
        def make(work, target):
            c = canvas.Canvas(target, pagesize=A4)
            t = c.beginText(60, 800)
            t.setFont("Times-Bold", 16)
            t.setCharSpace(8)
            t.textLine("INVOICE NOTE")
            t.setCharSpace(0)
            c.drawText(t)
            c.setFont("Times-Roman", 11)
            y = 770
            for l, k in LABELS:  # each letter by itself, as word processors with kerning do
                x = 60
                for ch in f"{l}: {inv[k]}":
                    c.drawString(x, y, ch)
                    x += pdfmetrics.stringWidth(ch, "Times-Roman", 11) + (0.25 if ch != " " else 0)
                y -= 16
            rest(c, inv, 60, 600, "Times-Roman")
            c.save()
        return make

    def platypus(inv, grid):
        def make(work, target):
            style = getSampleStyleSheet()
            story = [Paragraph("Invoice", style["Title"])]
            meta = Table([[l, inv[k]] for l, k in LABELS], hAlign="LEFT")
            where = Table([["Deliver to:"]] + [[l] for l in inv["address"]], hAlign="LEFT")
            where.setStyle([("TOPPADDING", (0, 0), (-1, -1), 0), ("BOTTOMPADDING", (0, 0), (-1, -1), 1)])
            items = Table([["Description", "Qty", "Price", "Amount"]] + [list(i) for i in ITEMS] + [["Total", "", "", inv["total"]]], colWidths=[200, 60, 70, 110])
            style = [("ALIGN", (1, 0), (-1, -1), "RIGHT")]
            if grid:
                style.append(("GRID", (0, 0), (-1, -1), 0.5, colors.black))
            items.setStyle(style)
            story += [meta, Spacer(1, 12), where, Spacer(1, 12), items]
            SimpleDocTemplate(target, pagesize=A4).build(story)
        return make

    def form(inv):
        def make(work, target):
            c = canvas.Canvas(target, pagesize=A4)
            y = 780
            c.setFont("Helvetica", 11)
            for l, k in LABELS:
                c.drawString(60, y, l + ":")
                c.acroForm.textfield(name=k, value=inv[k], x=180, y=y - 5, width=260, height=18, fontSize=11, borderWidth=0)
                y -= 24
            rest(c, inv, 60, 600, "Helvetica")
            c.save()
        return make

    return [
        ("reportlab-helvetica", INVOICES[0], simple(INVOICES[0], "Helvetica")),
        ("reportlab-courier", INVOICES[2], simple(INVOICES[2], "Courier", compress=0)),
        ("reportlab-times-right", INVOICES[4], simple(INVOICES[4], "Times-Roman", right=420)),
        ("reportlab-winansi", INVOICES[1], simple(INVOICES[1], "Helvetica-Bold")),
        ("reportlab-truetype", INVOICES[3], simple(INVOICES[3], "DejaVu", right=440)),
        ("reportlab-upwards", INVOICES[0], simple(INVOICES[0], "Helvetica", upside=True)),
        ("reportlab-turn-0", INVOICES[0], turned(INVOICES[0], 0)),
        ("reportlab-turn-90", INVOICES[1], turned(INVOICES[1], 90)),
        ("reportlab-turn-180", INVOICES[2], turned(INVOICES[2], 180)),
        ("reportlab-turn-270", INVOICES[4], turned(INVOICES[4], 270)),
        ("reportlab-letters", INVOICES[2], letters(INVOICES[2])),
        ("reportlab-table", INVOICES[1], platypus(INVOICES[1], False)),
        ("reportlab-grid", INVOICES[4], platypus(INVOICES[4], True)),
        ("reportlab-form", INVOICES[0], form(INVOICES[0])),
    ]


def cairo_file(inv, family, right=None):
    def make(work, target):
        import cairo
        surface = cairo.PDFSurface(target, 595, 842)
        c = cairo.Context(surface)
        c.select_font_face(family)
        c.set_font_size(11)

        def show(x, y, text, end=None):
            if end:
                x = end - c.text_extents(text).x_advance
            c.move_to(x, y)
            c.show_text(text)
        y = 60
        for l, k in LABELS:
            show(60, y, l + ("" if right else f": {inv[k]}"))
            if right:
                show(0, y, inv[k], right)
            y += 17
        y += 15
        show(60, y, "Deliver to:")
        for l in inv["address"]:
            y += 14
            show(60, y, l)
        y += 15
        for a, b, p, d in ITEMS:
            y += 15
            show(60, y, a)
            for v, at in ((b, 300), (p, 370), (d, 460)):
                show(0, y, v, at)
        show(60, y + 30, "Total")
        show(0, y + 30, inv["total"], 460)
        surface.finish()
    return make


def postscript(inv, font, encode=False):
    def text(s):
        return "(" + "".join(c if 32 <= ord(c) < 127 and c not in "()\\" else "\\%03o" % c.encode("cp1252")[0] for c in s) + ")"
    out = ["%!PS-Adobe-3.0"]
    if encode:
        out.append(f"/{font} findfont dup length dict begin {{1 index /FID ne {{def}} {{pop pop}} ifelse}} forall /Encoding ISOLatin1Encoding def currentdict end /Own exch definefont pop")
        font = "Own"
    out.append(f"/{font} findfont 11 scalefont setfont /r {{ dup stringwidth pop neg 0 rmoveto show }} def")
    y = 780
    for l, k in LABELS:
        out.append(f"60 {y} moveto {text(l + ': ' + inv[k])} show")
        y -= 16
    y -= 12
    out.append(f"60 {y} moveto (Deliver to:) show")
    for l in inv["address"]:
        y -= 14
        out.append(f"60 {y} moveto {text(l)} show")
    y -= 14
    for a, b, p, d in ITEMS:
        y -= 15
        out.append(f"60 {y} moveto {text(a)} show 300 {y} moveto {text(b)} r 370 {y} moveto {text(p)} r 460 {y} moveto {text(d)} r")
    out.append(f"60 {y - 30} moveto (Total) show 460 {y - 30} moveto {text(inv['total'])} r showpage")
    return "\n".join(out) + "\n"


def ghostscript(work, target, source):
    run("ps2pdf", write(os.path.join(work, "a.ps"), source, "latin-1"), target)


def roff(inv, table=True):
    e = lambda s: s.replace("\\", "\\e").replace("'", "\\(aq").replace("-", "\\-")
    out = [".ll 16c", ".nf", ".ps 11", ".SH" if False else ".ft B", "Invoice", ".ft R", ".sp"]
    out += [f"{l}: {e(inv[k])}" for l, k in LABELS]
    out += [".sp", "Deliver to:"] + [e(l) for l in inv["address"]] + [".sp"]
    out += [".TS", "allbox tab(|);" if table else "tab(|);", "l n n n."] + ["|".join(i) for i in ITEMS] + [".TE", ".sp", f"Total: {inv['total']}"]
    return "\n".join(out) + "\n"


def groff(device):
    def make(work, target, source):
        write(os.path.join(work, "a.roff"), source)
        with open(os.path.join(work, "a.out"), "wb") as f:
            subprocess.run(["groff", "-t", "-k", "-T" + device, "a.roff"], cwd=work, stdout=f, stderr=subprocess.DEVNULL, check=True)
        if device == "pdf":
            shutil.move(os.path.join(work, "a.out"), target)
        else:
            run("ps2pdf", os.path.join(work, "a.out"), target)
    return make


def typewriter(inv):
    out = [f"{l + ':':<20}{inv[k]}" for l, k in LABELS] + ["", "Deliver to:"] + inv["address"] + [""]
    out += [f"{a:<30}{b:>6}{c:>10}{d:>12}" for a, b, c, d in ITEMS] + ["", f"{'Total':<30}{inv['total']:>28}"]
    return "\n".join(out) + "\n"


def enscript(work, target, source):
    source = write(os.path.join(work, "a.txt"), source, "latin-1")
    run("enscript", "-B", "-X", "latin1", "-p", os.path.join(work, "a.ps"), source)
    run("ps2pdf", os.path.join(work, "a.ps"), target)


def fo(inv, two=False):
    block = lambda t, more="": f"<fo:block {more}>{escape(t)}</fo:block>"
    lines = "".join(block(f"{l}: {inv[k]}") for l, k in LABELS)
    where = block("Deliver to:", "space-before='12pt'") + "".join(block(l) for l in inv["address"])
    row = lambda i: "<fo:table-row>" + "".join(f"<fo:table-cell padding='2pt'>{block(v, 'text-align=' + repr('end') if n else '')}</fo:table-cell>" for n, v in enumerate(i)) + "</fo:table-row>"
    items = "<fo:table table-layout='fixed' width='100%' space-before='12pt'><fo:table-body>" + "".join(row(i) for i in ITEMS) + row(("Total", "", "", inv["total"])) + "</fo:table-body></fo:table>"
    prose = "".join(block(t, "text-align='justify'") for t in PROSE) if two else ""
    return f"""<?xml version="1.0" encoding="utf-8"?><fo:root xmlns:fo="http://www.w3.org/1999/XSL/Format"><fo:layout-master-set>
<fo:simple-page-master master-name="a" page-width="210mm" page-height="297mm" margin="20mm"><fo:region-body/></fo:simple-page-master></fo:layout-master-set>
<fo:page-sequence master-reference="a"><fo:flow flow-name="xsl-region-body" font-family="{'Times' if two else 'Helvetica'}" font-size="11pt">{lines}{where}{items}{prose}</fo:flow></fo:page-sequence></fo:root>"""


def fop(work, target, source):
    run("fop", "-fo", write(os.path.join(work, "a.fo"), source), "-pdf", target)


def changed(*args, base):
    """A file of the corpus, rewritten by another program."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")

    def make(work, target):
        run(*[a.replace("@IN@", os.path.join(here, base + ".pdf")).replace("@OUT@", target) for a in args])
    return make


def jobs():
    yield from latex_jobs()
    for name, inv, make in reportlab_jobs():
        yield name, "ReportLab", inv, make, rows() + (["INVOICE NOTE"] if name.endswith("letters") else [])
    for name, n, family, right in (("cairo-sans", 3, "DejaVu Sans", None), ("cairo-serif", 2, "Liberation Serif", 460), ("cairo-mono", 0, "DejaVu Sans Mono", None)):
        yield name, "cairo", INVOICES[n], cairo_file(INVOICES[n], family, right), rows()
    for name, n, font, encode in (("gs-helvetica", 0, "Helvetica", False), ("gs-latin1", 5, "Times-Roman", True), ("gs-palatino", 2, "Palatino-Roman", False)):
        inv = dict(INVOICES[n])
        if n == 5:  # ISO Latin 1 has no ligature of o and e
            inv["address"] = [l.replace("Œ", "O") for l in inv["address"]]
        yield name, "Ghostscript", inv, (lambda w, t, s=postscript(inv, font, encode): ghostscript(w, t, s)), rows()
    for name, n, device, table in (("groff-pdf", 0, "pdf", True), ("groff-ps", 2, "ps", False)):
        yield name, "groff", INVOICES[n], (lambda w, t, d=device, s=roff(INVOICES[n], table): groff(d)(w, t, s)), rows()
    yield "enscript-courier", "enscript", INVOICES[0], (lambda w, t: enscript(w, t, typewriter(INVOICES[0]))), rows()
    for name, n, two in (("fop-helvetica", 2, False), ("fop-times", 5, True)):
        yield name, "Apache FOP", INVOICES[n], (lambda w, t, s=fo(INVOICES[n], two): fop(w, t, s)), rows()
    yield "gs-of-chromium", "Ghostscript", INVOICES[(0 + 8) % 6], changed("gs", "-q", "-dNOPAUSE", "-dBATCH", "-sDEVICE=pdfwrite", "-sOutputFile=@OUT@", "@IN@", base="chromium-plain"), rows()
    yield "qpdf-encrypted", "qpdf", INVOICES[0], changed("qpdf", "--encrypt", "", "owner", "128", "--use-aes=y", "--print=none", "--", "@IN@", "@OUT@", base="reportlab-helvetica"), rows()
    yield "qpdf-encrypted-256", "qpdf", INVOICES[1], changed("qpdf", "--encrypt", "", "owner", "256", "--", "@IN@", "@OUT@", base="reportlab-winansi"), rows()
    yield "qpdf-encrypted-rc4", "qpdf", INVOICES[2], changed("qpdf", "--allow-weak-crypto", "--encrypt", "", "owner", "40", "--", "@IN@", "@OUT@", base="reportlab-courier"), rows()
    yield "qpdf-objects", "qpdf", INVOICES[3], changed("qpdf", "--object-streams=generate", "--linearize", "@IN@", "@OUT@", base="reportlab-truetype"), rows()
    yield "mutool-ascii", "MuPDF", INVOICES[4], changed("mutool", "clean", "-a", "-d", "@IN@", "@OUT@", base="reportlab-times-right"), rows()
    yield "poppler-cairo", "poppler", INVOICES[2], changed("pdftocairo", "-pdf", "@IN@", "@OUT@", base="latex-t1"), rows()
