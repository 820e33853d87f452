package code

import "github.com/stator-db/stator/internal/model"

// setParams returns the parameters of an update that are sets, by the placeholders of their
// values. An empty set cannot be stored.
func (s *codeSpec) setParams(c *codeStep) map[string]model.Param {
	all := make(map[string]model.Param)
	for _, clause := range c.Clauses {
		if clause.Value == "" {
			continue
		}
		o := c.Body["ExpressionAttributeValues"].(map[string]any)[clause.Value].(*model.Operand)
		if len(o.Parts) == 1 && o.Parts[0].Param.Field != nil && o.Parts[0].Param.Field.Type.IsSet() {
			all[clause.Value] = o.Parts[0].Param
		}
	}
	return all
}

// replacedSets returns the placeholders of the sets that an update replaces attributes with.
func (c *codeStep) replacedSets(s *codeSpec) (refs []string) {
	sets := s.setParams(c)
	for _, clause := range c.Clauses {
		if _, ok := sets[clause.Value]; ok && clause.Section == "SET" {
			refs = append(refs, clause.Value)
		}
	}
	return refs
}

// addedSets returns the sets that an update adds to attributes.
func (c *codeStep) addedSets(s *codeSpec) (params []model.Param) {
	sets := s.setParams(c)
	for _, clause := range c.Clauses {
		if p, ok := sets[clause.Value]; ok && clause.Section == "ADD" {
			params = append(params, p)
		}
	}
	return params
}
