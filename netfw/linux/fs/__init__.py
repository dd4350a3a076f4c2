"""Files, locks, permissions and inotify."""
