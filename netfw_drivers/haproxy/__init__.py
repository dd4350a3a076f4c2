"""The metadata proxy made of haproxy."""
