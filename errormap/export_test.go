package errormap

// AttrNames are the attributes' names in the document.
func AttrNames() map[string]Attr { return attrNames }
