"""Tunnels of programs on this machine, by which sandboxes of the hub call them back (`hub sandbox serve`)."""
