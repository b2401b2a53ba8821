"""Makes the small pictures of this folder, and beside each NAME.ppm, what Pillow's convert("RGB") gives for it (turned
as EXIF says). Needs Pillow 11 or later and numpy; the tests need only the files."""
import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

FOLDER = Path(__file__).parent
W, H = 21, 13
random = np.random.RandomState(7)


def draw(w, h, channels=3):
    y, x = np.mgrid[0:h, 0:w]
    a = np.stack([127 + 90 * np.sin(x / 4 + i) + 60 * np.cos(y / 3 - i) for i in range(channels)], -1)
    return np.clip(a + random.randint(-8, 9, a.shape), 0, 255).astype(np.uint8)


def put(name, content):
    (FOLDER / name).write_bytes(content)
    picture = ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert("RGB")
    picture.save(FOLDER / (name + ".ppm"))


def pillow(name, picture, **options):
    content = io.BytesIO()
    picture.save(content, **options)
    put(name, content.getvalue())


def chunk(kind, content):
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(w, h, depth, colour, rows, between=b"", pieces=1, interlace=0):
    data = zlib.compress(b"".join(b"\0" + r for r in rows))
    cut = [len(data) * i // pieces for i in range(pieces + 1)]
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, interlace)) + between
            + b"".join(chunk(b"IDAT", data[cut[i]:cut[i + 1]]) for i in range(pieces)) + chunk(b"IEND", b""))


def bits(row, depth):
    s = "".join(format(v, f"0{depth}b") for v in row)
    s += "0" * (-len(s) % 8)
    return int(s, 2).to_bytes(len(s) // 8, "big")


def adam7(a):
    """Rows of the seven passes of an interlaced 8-bit picture [H, W, C]."""
    for y0, x0, dy, dx in ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)):
        for row in a[y0::dy, x0::dx]:
            if row.size:
                yield row.tobytes()


def tiff_block(orientation, little):
    e, head = ("<", b"II*\0") if little else (">", b"MM\0*")
    return head + struct.pack(e + "IHHHIHHI", 8, 1, 0x112, 3, 1, orientation, 0, 0)


def main():
    rgb, rgba = Image.fromarray(draw(W, H)), Image.fromarray(draw(W, H, 4))
    grey, palette = rgb.convert("L"), rgb.quantize(60)
    pillow("rgb.png", rgb, format="PNG")
    pillow("rgba.png", rgba, format="PNG")
    pillow("grey.png", grey, format="PNG")
    pillow("grey_alpha.png", Image.fromarray(draw(W, H, 2)), format="PNG")
    pillow("palette.png", palette, format="PNG")
    pillow("palette_trns.png", palette, format="PNG", transparency=bytes(range(60)))
    put("rgb_pieces.png", png(W, H, 8, 2, [r.tobytes() for r in draw(W, H)], pieces=3))
    put("rgb_interlaced.png", png(W, H, 8, 2, list(adam7(draw(W, H))), interlace=1))
    for depth in (1, 2, 4):
        rows = [bits(r, depth) for r in random.randint(0, 1 << depth, (H, W))]
        colours = random.randint(0, 256, 3 << depth).astype(np.uint8).tobytes()
        put(f"grey{depth}.png", png(W, H, depth, 0, rows))
        put(f"palette{depth}.png", png(W, H, depth, 3, rows, chunk(b"PLTE", colours) + chunk(b"tRNS", b"\0\x80")))
    wide = draw(W, H, 4).astype(np.uint16) * 256 + random.randint(0, 256, (H, W, 4)).astype(np.uint16)
    put("rgb16.png", png(W, H, 16, 2, [r.astype(">u2").tobytes() for r in wide[..., :3]]))
    put("rgba16.png", png(W, H, 16, 6, [r.astype(">u2").tobytes() for r in wide]))
    put("grey16.png", png(W, H, 16, 0, [r.astype(">u2").tobytes() for r in wide[..., 0] // 150]))
    put("two_clear.png", png(2, 1, 8, 6, [bytes((255, 0, 0, 0, 0, 255, 0, 128))]))
    for name, options in (("444", dict(subsampling=0)), ("422", dict(subsampling=1)), ("420", dict(subsampling=2)),
                          ("411", dict(subsampling="4:1:1")), ("progressive", dict(progressive=True)),
                          ("restart", dict(restart_marker_blocks=1))):
        pillow(f"jpeg_{name}.jpg", rgb, format="JPEG", quality=90, **options)
    pillow("jpeg_grey.jpg", grey, format="JPEG", quality=90)
    pillow("jpeg_cmyk.jpg", rgb.convert("CMYK"), format="JPEG", quality=90)
    pillow("lossy.webp", rgb, format="WEBP", quality=80)
    pillow("lossy_alpha.webp", rgba, format="WEBP", quality=80)
    pillow("lossless.webp", rgba, format="WEBP", lossless=True, exact=True)
    for name, picture in (("rgb", rgb), ("palette", palette), ("one", rgb.convert("1"))):
        pillow(f"{name}.bmp", picture, format="BMP")
    for name, picture, compression in (("rgb", rgb, None), ("rgba", rgba, "tiff_lzw"), ("palette", palette, "packbits"),
                                       ("grey", grey, "tiff_adobe_deflate"), ("one", rgb.convert("1"), "group4")):
        pillow(f"{name}.tif", picture, format="TIFF", compression=compression)
    pillow("palette.gif", palette, format="GIF", save_all=True, append_images=[rgb.rotate(90).quantize(30)])
    pillow("grey.gif", grey, format="GIF", interlace=1)
    pillow("rgb.ppm", rgb, format="PPM")
    pillow("one.pbm", rgb.convert("1"), format="PPM")
    small = Image.fromarray(draw(6, 4))
    for o in range(10):
        pillow(f"turn{o}_le.jpg", small, format="JPEG", quality=90, exif=b"Exif\0\0" + tiff_block(o, True))
        pillow(f"turn{o}_be.jpg", small, format="JPEG", quality=90, exif=b"Exif\0\0" + tiff_block(o, False))
    pillow("turn6.png", small, format="PNG", exif=tiff_block(6, True))
    pillow("turn7.webp", small, format="WEBP", lossless=True, exif=tiff_block(7, False))
    pillow("turn8.tif", small, format="TIFF", tiffinfo={274: 8})
    pillow("avif.png", rgb, format="AVIF")
    (FOLDER / "avif.png.ppm").unlink()
    pillow("opaque.png", Image.fromarray(np.dstack([draw(2, 1), np.full((1, 2), 255, np.uint8)])), format="PNG")


if __name__ == "__main__":
    main()
