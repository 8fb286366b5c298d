"""Take the picture of an audit's page: `make docs-audit`.

``python docs/audit_page.py SHARED`` audits the MobileNetV2 of ImageNet in the folder SHARED on photos of groceries (Klasson et al.
2019, MIT) with U²-Net-p's masks, and writes the top of the page as ``docs/audit.png``. Needs Chromium.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from chromium import browsing

import bgbias

sys.path.append(str(Path(__file__).parent / "results"))
from public_models import mobilenet

OUT = Path("docs/audit.png")
WIDTH, HEIGHT = 1100, 1250

if __name__ == "__main__":
    shared = Path(sys.argv[1])
    model = {"MobileNetV2": mobilenet(shared / "weights/mobilenet_v2_imagenet.safetensors")}
    with tempfile.TemporaryDirectory() as folder, browsing() as page:
        compared = bgbias.audit(
            shared / "grocery_store.zip",
            model,
            name="groceries",
            sample=240,
            mask_weights=shared / "weights/u2netp.safetensors",
            out=folder,
        )
        print(compared)
        page.open((Path(folder) / "MobileNetV2/audit.html").as_uri(), WIDTH, HEIGHT)
        page.shoot(OUT)
