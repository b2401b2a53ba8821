import sys

import pytest


def pytest_configure(config):
    # Without torch, only what needs none.
    try:
        import torch
    except ImportError:
        return
    torch.manual_seed(7)


def pytest_ignore_collect(collection_path, config):
    if collection_path.name.startswith("test_torch"):
        try:
            import torch  # noqa: F401
        except ImportError:
            print(f"skipped {collection_path.name}: no torch", file=sys.stderr)
            return True
    return None


@pytest.fixture
def threads():
    """Sets torch's number of threads for one test."""
    import torch

    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
