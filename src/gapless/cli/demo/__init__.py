"""The demo: the main job on real data, as the commands that do it."""
