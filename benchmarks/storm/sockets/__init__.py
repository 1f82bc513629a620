"""The storms on real sockets: servers behind an ingress, and clients in processes of their own."""
