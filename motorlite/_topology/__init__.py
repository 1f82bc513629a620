"""Pure: discovery, monitoring and selection of servers."""
