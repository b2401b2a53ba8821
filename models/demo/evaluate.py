"""Does the demo model do what it is told? Runs 32 unseen pictures, each with two prompts, and measures the clips.

    python evaluate.py --engine ../../build/zoe            # through the engine (needs numpy and pillow)
    python evaluate.py --pytorch                           # through train/reference.py (needs torch as well)

For every picture two clips are made with the same seed: one for its prompt and one for another motion. Reported:
- as told: clips whose object does what the prompt says (moves left/right/up/down, grows, shrinks, spins in either
  direction, stays), for the thresholds see `judge`;
- pairs: pictures whose first clip does as told while the other prompt makes it do something else;
- the PSNR of the first frame against the picture;
- the PSNR of unseen clips through the VAE and back (with --engine by the program vae_roundtrip that is built beside zoe).
"""
import argparse
import glob
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import numpy as np
from PIL import Image

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "train"))
import clips  # noqa: E402

SYMMETRY = {"square": 4, "cross": 4, "triangle": 3, "star": 5}


def make_pairs(seed=424242, count=32):
    """Unseen pictures and for each two (motion, speed) that stay inside; motions in turn, the other one random."""
    g, rng = np.random.default_rng(seed), random.Random(seed)
    pairs = []
    while len(pairs) < count:
        motion = clips.MOTIONS[len(pairs) % len(clips.MOTIONS)]
        scene = clips.make_scenes(1, g, upright=True)
        speed = rng.choice(clips.SPEEDS) if motion != "still" else "slow"
        fits = [(m, s) for m in clips.MOTIONS for s in clips.SPEEDS
                if (m != "still" or s == "slow") and clips.allowed(scene, 0, m, s, room=0.8)]
        others = [c for c in fits if c[0] != motion]
        if (motion, speed) in fits and others:
            pairs.append((scene, (motion, speed), rng.choice(others)))
    return pairs


def picture(scene, size=64):
    v = clips.render(scene, [(0, "still", "slow")], times=[0], size=size)[0, :, 0]
    return ((v.transpose(1, 2, 0) + 1) * 127.5 + 0.5).clip(0, 255).astype(np.uint8)


def coverage(scene, frames):
    """How far each pixel is from the background to the object's colour, 0..1: [frames, h, w]."""
    empty = {**scene, "r": scene["r"] * 0 + 1e-3, "x": scene["x"] * 0 + 9}
    bg = clips.render(empty, [(0, "still", "slow")], times=[0])[0, :, 0].transpose(1, 2, 0)
    color = np.array(list(clips.COLORS.values()))[scene["color"][0]] * 2 - 1
    way = color - bg
    m = ((frames / 127.5 - 1 - bg) * way).sum(-1) / (way ** 2).sum(-1)
    return np.where(m > 0.25, m.clip(0, 1), 0)


def measure(scene, frames):
    """Displacement in pixels (x, y), final over first area, turn in radians (clockwise), final over largest size."""
    m = coverage(scene, frames.astype(np.float64))
    n, h, w = m.shape
    ys, xs = np.mgrid[:h, :w]
    area = m.sum((1, 2)) + 1e-6
    cx, cy = (m * xs).sum((1, 2)) / area, (m * ys).sum((1, 2)) / area
    tail, lead = slice(-3, None), slice(0, 2)
    turn = 0.0
    fold = SYMMETRY.get(clips.SHAPES[scene["shape"][0]])
    if fold:
        z = (xs - cx[:, None, None]) + 1j * (ys - cy[:, None, None])
        phase = np.angle((m * np.abs(z) ** 2 * np.exp(1j * fold * np.angle(z))).sum((1, 2)))
        phase = np.unwrap(phase) / fold
        turn = phase[tail].mean() - phase[lead].mean()
    return (cx[tail].mean() - cx[lead].mean(), cy[tail].mean() - cy[lead].mean(),
            area[tail].mean() / area[lead].mean(), turn)


def judge(scene, frames):
    """The motion that the clip shows, or "lost" when the object is gone."""
    dx, dy, growth, turn = measure(scene, frames)
    if growth < 0.12:
        return "lost"
    if max(abs(dx), abs(dy)) > 5:
        if abs(dx) > abs(dy):
            return "right" if dx > 0 else "left"
        return "down" if dy > 0 else "up"
    if growth > 1.3:
        return "grow"
    if growth < 0.77:
        return "shrink"
    return "spin" if abs(turn) > 0.6 else "still"


def psnr(a, b):
    return 10 * np.log10(255 ** 2 / np.mean((a.astype(np.float64) - b.astype(np.float64)) ** 2))


def by_engine(a, jobs):
    out, t0 = [], time.time()
    for image, prompt, seed in jobs:
        with tempfile.TemporaryDirectory() as tmp:
            Image.fromarray(image).save(os.path.join(tmp, "in.png"))
            run = subprocess.run([a.engine, "generate", "--model", a.model, "--image", os.path.join(tmp, "in.png"),
                            "--prompt", prompt, "--frames", "17", "--steps", str(a.steps), "--seed", str(seed),
                            "--size", "64x64", "--frames-out", os.path.join(tmp, "frames"),
                            "--out", os.path.join(tmp, "out.mp4"), *a.extra.split()],
                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            if run.returncode:
                raise SystemExit(f"{a.engine} ended with {run.returncode}: {run.stderr}")
            names = sorted(glob.glob(os.path.join(tmp, "frames", "*.png")))
            out.append(np.stack([np.asarray(Image.open(p).convert("RGB")) for p in names]))
        print(f"{len(out)}/{len(jobs)} {prompt}", file=sys.stderr, flush=True)
    print(f"{(time.time() - t0) / len(jobs):.2f} s a clip, start of the program included")
    vae_by_engine(a)
    return out


def unseen_clips():
    """32 clips from seeds that training never saw, float [n, 3, 17, 64, 64] in [-1, 1]."""
    g, rng = np.random.default_rng(31337), random.Random(31337)
    scenes = clips.make_scenes(32, g)
    return clips.render(scenes, clips.pick_motions(scenes, 1, rng))


def vae_by_engine(a):
    """Every clip, in 8 bits, through the program beside zoe that encodes and decodes it."""
    tool = os.path.join(os.path.dirname(os.path.abspath(a.engine)), "vae_roundtrip")
    rows = []
    for clip in unseen_clips():
        with tempfile.TemporaryDirectory() as tmp:
            frames = np.clip(np.rint((clip + 1) * 127.5), 0, 255).astype(np.uint8).transpose(1, 2, 3, 0)
            names = [os.path.join(tmp, f"{i:02d}.png") for i in range(len(frames))]
            for name, frame in zip(names, frames):
                Image.fromarray(frame).save(name)
            run = subprocess.run([tool, os.path.join(a.model, "Wan2.1_VAE.pth"), *names], capture_output=True, text=True)
            if run.returncode:
                raise SystemExit(f"{tool}: {run.stderr}")
            rows.append([float(x) for x in run.stdout.split()])
    mean = lambda db: -10 * np.log10(np.mean(10 ** (-np.array(db) / 10), 0))
    print(f"VAE round trip over {len(rows)} unseen clips: {mean([r[0] for r in rows]):.2f} dB, worst clip "
          f"{min(r[0] for r in rows):.2f} dB; frames " + " ".join(f"{x:.1f}" for x in mean([r[1:] for r in rows])))


def by_pytorch(a, jobs):
    import torch
    from reference import Pipeline
    torch.set_num_threads(a.threads)
    pipe, out = Pipeline(a.model), []
    for i in range(0, len(jobs), 16):
        images, prompts, seeds = zip(*jobs[i:i + 16])
        x = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 127.5 - 1
        v = pipe(x, prompts, seeds, steps=a.steps)
        out += list(((v + 1) * 127.5).byte().permute(0, 2, 3, 4, 1).numpy())
    with torch.no_grad():
        v = torch.from_numpy(unseen_clips())
        e = torch.cat([(pipe.decode(pipe.encode(c)) - c).square() for c in v.split(4)])
        db = lambda x: -10 * np.log10(x / 4)
        print(f"VAE round trip over 32 unseen clips: {db(e.mean().item()):.2f} dB, worst clip "
              f"{db(e.mean((1, 2, 3, 4)).max().item()):.2f} dB; frames " +
              " ".join(f"{db(x):.1f}" for x in e.mean((0, 1, 3, 4)).tolist()))
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    how = ap.add_mutually_exclusive_group(required=True)
    how.add_argument("--engine", help="the zoe program")
    how.add_argument("--pytorch", action="store_true")
    ap.add_argument("--model", default=HERE)
    ap.add_argument("--steps", type=int, default=20)
    ap.add_argument("--count", type=int, default=32)
    ap.add_argument("--extra", default="", help="more arguments for the engine")
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--sheet", help="write a contact sheet (PNG) of all clips")
    ap.add_argument("--json", help="write the figures")
    a = ap.parse_args()
    pairs = make_pairs(count=a.count)
    jobs = []
    for i, (scene, first, other) in enumerate(pairs):
        for motion, speed in (first, other):
            jobs.append((picture(scene), clips.plain_caption(*clips.names(scene, 0), motion, speed), i))
    videos = by_engine(a, jobs) if a.engine else by_pytorch(a, jobs)
    rows, told, good, by_motion = [], 0, 0, {m: [0, 0] for m in clips.MOTIONS}
    for i, (scene, first, other) in enumerate(pairs):
        va, vb = videos[2 * i:2 * i + 2]
        seen = judge(scene, va), judge(scene, vb)
        for wanted, shown in zip((first[0], other[0]), seen):
            told += wanted == shown
            by_motion[wanted][0] += wanted == shown
            by_motion[wanted][1] += 1
        ok = seen[0] == first[0] and seen[1] != first[0]
        good += ok
        row = dict(prompt=jobs[2 * i][1], shows=seen[0], other_prompt=jobs[2 * i + 1][1], other_shows=seen[1], ok=ok,
                   first_frame_db=[round(float(psnr(v[0], jobs[2 * i][0])), 2) for v in (va, vb)],
                   measured=[[round(float(x), 2) for x in measure(scene, v)] for v in (va, vb)])
        rows.append(row)
        print(f"{'ok  ' if ok else 'MISS'} {row['prompt']} -> {seen[0]} | {row['other_prompt']} -> {seen[1]} | "
              f"{row['measured']} | first frame {row['first_frame_db']}")
    first = np.array([r["first_frame_db"] for r in rows])
    result = dict(pairs_ok=good, pairs=len(pairs), as_told=told, clips=len(jobs), by_motion=by_motion,
                  first_frame_db_mean=round(float(first.mean()), 2), first_frame_db_min=round(float(first.min()), 2))
    print(f"pairs {good}/{len(pairs)} ({100 * good / len(pairs):.0f} %), as told {told}/{len(jobs)}, "
          f"first frame {first.mean():.1f} dB (least {first.min():.1f})")
    print("as told by motion: " + ", ".join(f"{m} {k}/{n}" for m, (k, n) in by_motion.items()))
    if a.json:
        with open(a.json, "w") as f:
            json.dump(dict(result, rows=rows), f, indent=1)
    if a.sheet:
        Image.fromarray(np.concatenate([np.concatenate(v[::2], 1) for v in videos])).save(a.sheet)


if __name__ == "__main__":
    main()
