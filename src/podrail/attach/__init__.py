"""The pod side: device plugin, CNI, addresses."""
