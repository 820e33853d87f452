package policy

// didYouMean returns "; did you mean x?" for the known name that is nearest, or
// nothing if none is near.
func didYouMean(name string, known []string) string {
	if near := nearest(name, known); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// nearest returns the known name that differs least, if it differs little.
func nearest(name string, known []string) string {
	if len(name) > 80 {
		return ""
	}
	best, at := "", 1+min(3, len(name)/3)
	for _, k := range known {
		if equalFold(k, name) {
			return k
		}
		if d := editDistance(name, k); d < at {
			best, at = k, d
		}
	}
	return best
}

// editDistance is the number of bytes to insert, delete or replace, without case.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := diagonal
			if lower(a[i]) != lower(b[j]) {
				d++
			}
			diagonal = row[j+1]
			row[j+1] = min(d, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
