"""The demo: the main job on real data, told as the commands that do it."""
