"""Pure: tables and flows of br-int, br-tun and physical bridges."""
