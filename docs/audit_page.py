"""Take the picture of an audit's page: `make docs-audit`.

``python docs/audit_page.py SHARED`` audits the MobileNetV2 of ImageNet in the folder SHARED on photos of groceries (Klasson et
al. 2019, MIT) with U²-Net-p's masks, and writes the top of the page as ``docs/audit.png``. Needs Chromium.
"""

from __future__ import annotations

import sys
from pathlib import Path

from chromium import browsing

import bgbias

sys.path.append(str(Path(__file__).parent / "results"))
from public_models import mobilenet

OUT = Path("docs/audit.png")
AUDIT = Path("data/report/audit_page")
WIDTH, HEIGHT = 1000, 860

if __name__ == "__main__":
    shared = Path(sys.argv[1])
    model = {"MobileNetV2": mobilenet(shared / "weights/mobilenet_v2_imagenet.safetensors")}
    photos, masker = shared / "grocery_store.zip", shared / "weights/u2netp.safetensors"
    print(bgbias.audit(photos, model, name="groceries", sample=240, mask_weights=masker, out=AUDIT))
    with browsing() as page:
        page.open((AUDIT / "MobileNetV2/audit.html").resolve().as_uri(), WIDTH, HEIGHT)
        page.wait_for_text("MobileNetV2")
        page.shoot(OUT)
