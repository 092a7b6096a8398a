"""The one seam to a machine: files, links and programs."""
