BUILDS = []
