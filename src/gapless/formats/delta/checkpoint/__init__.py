"""Delta log checkpoints: classic, in parts and V2, with sidecars."""
