"""Pure: server discovery, monitoring and selection."""
