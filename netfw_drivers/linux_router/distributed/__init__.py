"""Parts of distributed routers: states, policy routing, links to agent gateways.  Pure."""
