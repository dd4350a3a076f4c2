"""``netfw demo``: netfw's main job on a laboratory, chapter by chapter."""
