#!/usr/bin/python3
"""Makes pictures and scanned PDF files of some files of the corpus, with the programs of make.py."""
import json, os, subprocess, sys, tempfile
import pikepdf
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen import canvas

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS, OUT = os.path.join(HERE, "corpus"), os.path.join(HERE, "scans")


def run(*args):
    subprocess.run(args, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def picture(base, kind, work, dpi=200):
    out = os.path.join(work, base + kind)
    extra = ["-jpegopt", "quality=50"] if kind == "jpeg" else ["-tiffcompression", "deflate"] if kind == "tiff" else ["-mono"] if kind == "mono" else []
    run("pdftoppm", "-r", str(dpi), "-gray" if kind != "mono" else "-mono", *([] if kind == "mono" else ["-" + kind]), "-singlefile", *[e for e in extra if e != "-mono"],
        os.path.join(CORPUS, base + ".pdf"), out)
    return out + {"jpeg": ".jpg", "png": ".png", "tiff": ".tif", "mono": ".pbm"}[kind]


def fax(base, work, target):
    """A page of fax data, as scanners make them."""
    tif = os.path.join(work, "fax.tif")
    run("gs", "-q", "-dNOPAUSE", "-dBATCH", "-sDEVICE=tiffg4", "-r200", "-dMaxStripSize=0", "-sOutputFile=" + tif, os.path.join(CORPUS, base + ".pdf"))
    data = open(tif, "rb").read()
    at = int.from_bytes(data[4:8], "little")
    tags = {}
    for i in range(int.from_bytes(data[at:at + 2], "little")):
        e = data[at + 2 + 12 * i:at + 14 + 12 * i]
        tags[int.from_bytes(e[:2], "little")] = int.from_bytes(e[8:8 + (2 if e[2] == 3 else 4)], "little")
    pdf = pikepdf.new()
    pdf.add_blank_page(page_size=(595, 842))
    image = pikepdf.Stream(pdf, data[tags[273]:tags[273] + tags[279]])
    image.stream_dict = pikepdf.Dictionary(Type=pikepdf.Name.XObject, Subtype=pikepdf.Name.Image, Width=tags[256], Height=tags[257], BitsPerComponent=1,
                                           ColorSpace=pikepdf.Name.DeviceGray, Filter=pikepdf.Name.CCITTFaxDecode,
                                           DecodeParms=pikepdf.Dictionary(K=-1, Columns=tags[256], Rows=tags[257]))
    page = pdf.pages[0]
    page.Resources = pikepdf.Dictionary(XObject=pikepdf.Dictionary(I=image))
    page.Contents = pikepdf.Stream(pdf, b"q 595 0 0 842 0 0 cm /I Do Q")
    pdf.save(target)


def paper(files, target, rotate=0):
    c = canvas.Canvas(target, pagesize=A4)
    for f in files:
        c.drawImage(f, 0, 0, *A4)
        c.showPage()
    c.save()
    if rotate:
        with pikepdf.open(target, allow_overwriting_input=True) as pdf:
            pdf.pages[0].Rotate = rotate
            pdf.save()


def main():
    os.makedirs(OUT, exist_ok=True)
    want = json.load(open(os.path.join(CORPUS, "expected.json")))
    out = {}

    def keep(name, base):
        out[name] = dict(want[base + ".pdf"], rows=[], prose=[])
    with tempfile.TemporaryDirectory() as work:
        for name, base, kind in (("plain.png", "reportlab-helvetica", "png"), ("photo.jpg", "chromium-columns", "jpeg"), ("scan.tif", "latex-t1", "tiff"), ("right.png", "gs-palatino", "png")):
            os.replace(picture(base, kind, work), os.path.join(OUT, name))
            keep(name, base)
        paper([picture("chromium-plain", "jpeg", work)], os.path.join(OUT, "jpeg.pdf"))
        keep("jpeg.pdf", "chromium-plain")
        paper([picture("cairo-serif", "png", work)], os.path.join(OUT, "flate.pdf"))
        keep("flate.pdf", "cairo-serif")
        fax("gs-helvetica", work, os.path.join(OUT, "fax.pdf"))
        keep("fax.pdf", "gs-helvetica")
    json.dump(out, open(os.path.join(OUT, "expected.json"), "w"), indent=1, ensure_ascii=False, sort_keys=True)


if __name__ == "__main__":
    main()
