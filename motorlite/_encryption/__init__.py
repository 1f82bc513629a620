"""Shell: client-side field-level encryption and queryable encryption, on top of the API."""
