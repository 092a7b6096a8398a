"""What each issue promised about speed, measured in one run as ratios and growth."""
