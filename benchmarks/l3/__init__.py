"""The L3 agent: routers, floating IPs, HA, distributed routers."""
