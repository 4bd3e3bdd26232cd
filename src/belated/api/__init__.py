"""What travels between the service and its clients: types and ids."""
