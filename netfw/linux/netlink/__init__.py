"""Raw netlink: messages as bytes, and the socket that carries them."""
