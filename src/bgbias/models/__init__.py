"""Networks that embed: backbones, necks, the embedding layer, and how photos enter."""
