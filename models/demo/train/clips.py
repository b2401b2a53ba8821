"""Synthetic captioned clips: one coloured shape that moves over a soft two-colour gradient.

A *scene* is what the first frame shows (background, colour, shape, size, place, angle); a *motion* is what happens to
it. Several motions may start from the same scene, so a model cannot tell the motion from the picture and must read
the caption. Needs numpy alone; vectorised over clips and deterministic by seed.

Lengths are in half pictures: the picture spans -1..1 in both directions, y points down.
"""
import math

import numpy as np

COLORS = {"red": (0.90, 0.15, 0.15), "green": (0.15, 0.75, 0.25), "blue": (0.15, 0.30, 0.95),
          "yellow": (0.95, 0.85, 0.15), "white": (0.97, 0.97, 0.97), "purple": (0.60, 0.20, 0.80),
          "orange": (0.98, 0.55, 0.10), "cyan": (0.10, 0.80, 0.85)}
SHAPES = ("circle", "square", "triangle", "star", "ring", "cross")
MOTIONS = ("left", "right", "up", "down", "grow", "shrink", "spin", "still")
SPEEDS = ("slow", "fast")
DIRECTION = {"left": (-1, 0), "right": (1, 0), "up": (0, -1), "down": (0, 1)}

TRAVEL = {"slow": 0.45, "fast": 0.90}     # distance over the clip
GROWTH = {"slow": 1.35, "fast": 1.75}     # final size over first size
SHRINK = {"slow": 0.75, "fast": 0.52}
TURN = {"slow": 1.5, "fast": 3.0}         # radians over the clip, clockwise as seen
SHARPNESS = 44.8                         # of the edge: it is soft over about three pixels at 64x64

VERBS = {
    "left": ("moves left", "moves to the left", "is moving left", "moving left", "goes left", "slides to the left",
             "slides left", "moves towards the left", "travels left", "drifts left", "going to the left"),
    "right": ("moves right", "moves to the right", "is moving right", "moving right", "goes right",
              "slides to the right", "slides right", "moves towards the right", "travels right", "drifts right",
              "going to the right"),
    "up": ("moves up", "moves upwards", "is moving up", "moving up", "goes up", "rises", "is rising", "moves to the top",
           "slides up", "drifts upward", "flies up"),
    "down": ("moves down", "moves downwards", "is moving down", "moving down", "goes down", "falls", "is falling",
             "moves to the bottom", "slides down", "drifts downward", "sinks"),
    "grow": ("grows", "is growing", "growing", "gets bigger", "gets larger", "becomes larger", "becomes bigger",
             "expands", "is getting bigger"),
    "shrink": ("shrinks", "is shrinking", "shrinking", "gets smaller", "becomes smaller", "is getting smaller",
               "contracts", "becomes tiny"),
    "spin": ("spins", "is spinning", "spinning", "rotates", "is rotating", "turns around", "spins around",
             "rotates in place", "turns"),
    "still": ("stays still", "is still", "does not move", "stands still", "remains still", "is not moving",
              "stays in place", "is motionless"),
}
ADVERBS = {"slow": ("slowly", "slowly", "slowly", "gently", "at a slow pace"),
           "fast": ("fast", "fast", "quickly", "quickly", "rapidly")}


def plain_caption(color, shape, motion, speed):
    """The caption in its plainest form, e.g. "a red circle moves left slowly"."""
    article = "an" if color[0] in "aeiou" else "a"
    adverb = "" if motion == "still" else " slowly" if speed == "slow" else " fast"
    return f"{article} {color} {shape} {VERBS[motion][0]}{adverb}"


def caption(rng, color, shape, motion, speed):
    """A random wording (rng: random.Random)."""
    if rng.random() < 0.25:
        text = plain_caption(color, shape, motion, speed)
    else:
        noun = rng.choices((f"{color} {shape}", shape, "object", "shape", f"{color} object", "it"),
                           (0.74, 0.08, 0.05, 0.04, 0.05, 0.04))[0]
        if noun != "it":
            article = "an" if noun[0] in "aeiou" else "a"
            noun = rng.choice((f"{article} ", "the ", "the ", "", "one ") if rng.random() < 0.3 else
                              (f"{article} ", "the ")) + noun
        verb = rng.choice(VERBS[motion])
        adverb = rng.choice(ADVERBS[speed]) if motion != "still" and rng.random() < 0.85 else ""
        text = f"{noun} {adverb} {verb}" if adverb and " " not in adverb and rng.random() < 0.2 else \
            f"{noun} {verb} {adverb}"
        text = " ".join(text.split())
        roll = rng.random()
        if roll < 0.06:
            text = "a video of " + text
        elif roll < 0.10:
            text += rng.choice((" over a dark background", " on a gradient background", " in front of a soft background",
                                " across the picture", " in the picture"))
    roll = rng.random()
    if roll < 0.35:
        text = text[0].upper() + text[1:]
    elif roll < 0.38:
        text = text.upper()
    if rng.random() < 0.3:
        text += "."
    return text


def polygon_distance(x, y, r, corners, inner):
    """Signed distance (approximate) to a regular star with `corners` tips at radius r and notches at inner*r."""
    seg = 2 * math.pi / corners
    d = np.hypot(x, y)
    b = np.abs((np.arctan2(x, -y) + seg / 2) % seg - seg / 2)
    x1, y1 = inner * math.cos(seg / 2), inner * math.sin(seg / 2)
    nx, ny = y1, 1.0 - x1                                  # outward normal of the edge (1,0)-(x1,y1)
    n = math.hypot(nx, ny)
    return (nx * (d * np.cos(b) - r) + ny * d * np.sin(b)) / n


def box_distance(x, y, hx, hy):
    qx, qy = np.abs(x) - hx, np.abs(y) - hy
    return np.hypot(np.maximum(qx, 0), np.maximum(qy, 0)) + np.minimum(np.maximum(qx, qy), 0)


def shape_distance(shape, x, y, r):
    if shape == "circle":
        return np.hypot(x, y) - r
    if shape == "ring":
        return np.abs(np.hypot(x, y) - 0.74 * r) - 0.28 * r
    if shape == "square":
        return box_distance(x, y, 0.84 * r, 0.84 * r)
    if shape == "cross":
        return np.minimum(box_distance(x, y, r, 0.36 * r), box_distance(x, y, 0.36 * r, r))
    if shape == "triangle":
        return polygon_distance(x, y, 1.1 * r, 3, 0.5)     # notch at half radius: straight sides
    return polygon_distance(x, y, 1.15 * r, 5, 0.5)


def make_scenes(n, g, upright=False, shapes=SHAPES):
    """n random first frames as a dictionary of arrays (g: numpy.random.Generator); the shape at any angle, or
    `upright`, within 0.1 radians."""
    def uniform(a, b, *size):
        return g.uniform(a, b, (n, *size)).astype(np.float32)
    shape = np.array([SHAPES.index(shapes[i]) for i in g.integers(len(shapes), size=n)])
    return dict(color=g.integers(len(COLORS), size=n), shape=shape,
                bg0=uniform(0, 0.5, 3), bg1=uniform(0, 0.5, 3), bg_angle=uniform(0, 2 * math.pi),
                x=uniform(-0.5, 0.5), y=uniform(-0.5, 0.5), r=uniform(0.25, 0.42), angle=uniform(-0.1, 0.1) if upright else uniform(0, 2 * math.pi))


def allowed(scenes, i, motion, speed, room=0.85):
    """Whether the motion keeps the object in the picture (and can be seen at all)."""
    x, y, r = (float(scenes[k][i]) for k in ("x", "y", "r"))
    if motion in DIRECTION:
        dx, dy = DIRECTION[motion]
        return max(abs(x + dx * TRAVEL[speed]), abs(y + dy * TRAVEL[speed])) + 0.45 * r < room
    if motion == "grow":
        return r * GROWTH[speed] < 0.66 and max(abs(x), abs(y)) + 0.45 * r * GROWTH[speed] < room
    if motion == "shrink":
        return r * SHRINK[speed] > 0.11
    if motion == "spin":
        return SHAPES[scenes["shape"][i]] not in ("circle", "ring")
    return True


def pick_motions(scenes, per_scene, rng):
    """For every scene `per_scene` different allowed (motion, speed) pairs; returns (scene index, motion, speed)."""
    out = []
    for i in range(len(scenes["x"])):
        choices = [(m, s) for m in MOTIONS for s in SPEEDS if (m != "still" or s == "slow") and allowed(scenes, i, m, s)]
        weight = {m: 1 / sum(c[0] == m for c in choices) for m, _ in choices}
        picked = []
        while len(picked) < min(per_scene, len(choices)):
            c = rng.choices(choices, [weight[m] for m, _ in choices])[0]
            if c not in picked:
                picked.append(c)
        out += [(i, *c) for c in picked]
    return out


def render(scenes, clips, size=64, times=None, crop=None):
    """Pixels [n, 3, frames, h, w] in [-1, 1] of the clips (scene index, motion, speed).
    times: moments in 0..1 to show (default 17 from 0 to 1); crop: (x, y, side) in pixels."""
    n = len(clips)
    times = np.linspace(0, 1, 17, dtype=np.float32) if times is None else np.asarray(times, np.float32)
    cx, cy, side = crop or (0, 0, size)
    axis = (np.arange(size, dtype=np.float32) + 0.5) / size * 2 - 1
    xs = axis[cx:cx + side].reshape(1, 1, 1, side)
    ys = axis[cy:cy + side].reshape(1, 1, side, 1)
    at = np.array([c[0] for c in clips])
    s = {k: v[at] for k, v in scenes.items()}
    slope = np.zeros((n, 4), np.float32)                    # change of x, y, size, angle over the clip
    for i, (_, motion, speed) in enumerate(clips):
        if motion in DIRECTION:
            slope[i, :2] = [d * TRAVEL[speed] for d in DIRECTION[motion]]
        elif motion == "grow":
            slope[i, 2] = GROWTH[speed] - 1
        elif motion == "shrink":
            slope[i, 2] = SHRINK[speed] - 1
        elif motion == "spin":
            slope[i, 3] = TURN[speed]
    move = slope[:, None, :] * times[None, :, None]
    px = xs - (s["x"][:, None] + move[..., 0])[:, :, None, None]
    py = ys - (s["y"][:, None] + move[..., 1])[:, :, None, None]
    r = (s["r"][:, None] * (1 + move[..., 2]))[:, :, None, None]
    angle = (s["angle"][:, None] + move[..., 3])[:, :, None, None]
    cos, sin = np.cos(angle), np.sin(angle)
    qx, qy = px * cos + py * sin, py * cos - px * sin
    dist = np.empty(qx.shape, np.float32)
    for k, name in enumerate(SHAPES):
        sel = s["shape"] == k
        if sel.any():
            dist[sel] = shape_distance(name, qx[sel], qy[sel], r[sel])
    m = (1 / (1 + np.exp(np.clip(dist * SHARPNESS, -30, 30))))[:, None]
    th = s["bg_angle"].reshape(n, 1, 1, 1)
    t = ((xs * np.cos(th) + ys * np.sin(th)) * 0.35 + 0.5)[:, None]
    wide = lambda v: v[:, :, None, None, None]
    bg = wide(s["bg0"]) * (1 - t) + wide(s["bg1"]) * t
    color = wide(np.array(list(COLORS.values()), np.float32)[s["color"]])
    return (bg + (color - bg) * m) * 2 - 1


def names(scenes, i):
    """(colour, shape) of scene i as words."""
    return list(COLORS)[scenes["color"][i]], SHAPES[scenes["shape"][i]]


if __name__ == "__main__":                                  # a sheet of examples: python clips.py sheet.png
    import random
    import sys
    from PIL import Image
    g, rng = np.random.default_rng(0), random.Random(0)
    scenes = make_scenes(6, g)
    clips = pick_motions(scenes, 3, rng)
    video = render(scenes, clips)
    for c in clips:
        print(caption(rng, *names(scenes, c[0]), *c[1:]))
    sheet = video[:, :, ::4].transpose(0, 3, 2, 4, 1).reshape(len(clips) * 64, -1, 3)
    Image.fromarray(((sheet + 1) * 127.5 + 0.5).astype(np.uint8)).save(sys.argv[1])
