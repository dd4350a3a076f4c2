"""What touches the machine: files, processes, devices."""
