"""The ML2 core plugin: where handlers, drivers and services meet."""
