"""A simulation of clients and overloaded servers that runs the driver's own policies, pools and retry decisions."""
