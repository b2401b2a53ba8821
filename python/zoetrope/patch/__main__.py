"""python -m zoetrope.patch: compares patched modules with the original ones, and lists what is known.

The exit status is 0 if all bounds are kept, 1 if not, 2 if a check could not be made.
"""
import argparse
import math
import sys

import torch

from .check import DTYPES, TOKENS, CheckError, check, listing, resolve, surroundings
from .rule import samples


def whole(most):
    def read(text):
        if not text.isdecimal() or not 1 <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to {most}")
        return int(text)
    return read


def seconds(text):
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m zoetrope.patch", description=__doc__.partition("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", nargs="+", metavar="CLASS", help="full names, or their ends: LlamaDecoderLayer")
    what.add_argument("--list", action="store_true", help="the classes that have a rule, or can be checked")
    parser.add_argument("--tokens", nargs="+", type=whole(10**9), help="default: 1536 4096, with --size tiny 24 57")
    parser.add_argument("--size", choices=TOKENS, default="real", help="of the weights; default: real")
    parser.add_argument("--dtype", choices=DTYPES, nargs="+", default=["f32"], help="default: f32")
    parser.add_argument("--threads", type=whole(1024), default=1, help="default: 1")
    parser.add_argument("--seconds", type=seconds, default=10, help="of timing for each line; default: 10")
    args = parser.parse_args(argv)
    if args.list:
        print(listing())
        return 0
    torch.set_num_threads(args.threads)
    try:
        names = [resolve(name, samples(), "sample") for name in args.check]
        print(surroundings(names))
        kept = True
        for name in names:
            for dtype in args.dtype:
                for result in check(name, args.tokens, args.size, dtype, args.seconds):
                    print(f"\n{result}", flush=True)
                    kept = kept and result.kept
    except CheckError as error:
        print(f"zoetrope.patch: {error}", file=sys.stderr)
        return 2
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
