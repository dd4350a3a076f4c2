"""What firewalls of Linux bridges share, whichever tables of the kernel they use."""
