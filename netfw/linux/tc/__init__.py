"""Traffic control: HTB classes of a device and the filters that choose them."""
