"""nftables: chains, sets and maps of tables that have one owner, by libnftables."""
