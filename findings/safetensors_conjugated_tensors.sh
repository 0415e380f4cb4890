#!/usr/bin/env bash
# safetensors 0.8.0 (PyTorch 2.13.0): safetensors.torch.save_file and save_model drop the conjugate and
# the negative bit of a tensor without a word. In PyTorch `x.conj()` is lazy: the memory keeps the
# numbers of x, and a bit says that they are conjugated. The bytes are written and the bit is not, so
# that the signs in the file are the opposite ones. torch.save keeps both bits; tensor.numpy() refuses
# such tensors. tensor.resolve_conj() and tensor.resolve_neg() are the way out.
#
# Seen 2026-11-28:
#   conjugated spectrum: torch.save equal True, safetensors equal False, its conjugate equal True
#   negated view: torch.save equal True, safetensors equal False, its negative equal True
#   buffer of a module, save_model: equal False
#   resolved first: equal True
# Exit status 0 while it is so, 1 when it has changed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --extra-index-url https://download.pytorch.org/whl/cpu \
  safetensors==0.8.0 torch==2.13.0 numpy==2.3.5
cd "$folder"
venv/bin/python - <<'PYTHON'
import sys

import torch
from safetensors.torch import load_file, save_file, save_model

torch.manual_seed(0)
spectrum = torch.fft.fft(torch.randn(4)).conj()
negated = torch._neg_view(torch.arange(1.0, 4.0))


def by_torch(tensor):
    torch.save(tensor, "x.pth")
    return torch.equal(torch.load("x.pth", weights_only=True), tensor)


def read(tensor):
    save_file({"x": tensor}, "x.safetensors")
    return load_file("x.safetensors")["x"]


class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", negated)


facts = []
for name, tensor, other, what in (
    ("conjugated spectrum", spectrum, spectrum.conj(), "conjugate"),
    ("negated view", negated, -negated, "negative"),
):
    found = read(tensor)
    fact = (by_torch(tensor), torch.equal(found, tensor), torch.equal(found, other))
    print(f"{name}: torch.save equal {fact[0]}, safetensors equal {fact[1]}, its {what} equal {fact[2]}")
    facts.append(fact == (True, False, True))
save_model(Module(), "m.safetensors")
same = torch.equal(load_file("m.safetensors")["table"], negated)
print(f"buffer of a module, save_model: equal {same}")
facts.append(not same)
same = torch.equal(read(spectrum.resolve_conj()), spectrum)
print(f"resolved first: equal {same}")
facts.append(same)
sys.exit(0 if all(facts) else 1)
PYTHON
