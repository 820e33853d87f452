package partiql

import "strings"

// keywords are the words that can be names only in quotes: those of SQL-92
// and those that PartiQL adds.
var keywords = func() map[string]struct{} {
	set := make(map[string]struct{})
	for word := range strings.FieldsSeq(keywordList) {
		set[word] = struct{}{}
	}
	return set
}()

const keywordList = `
	absolute action add all allocate alter any are as asc assertion at authorization avg bag begin bit
	bit_length blob bool boolean by cascade cascaded case cast catalog char char_length character
	character_length check clob close coalesce collate collation column commit conflict connect
	connection constraint constraints continue convert corresponding count create cross current
	current_date current_time current_timestamp current_user cursor date date_add date_diff deallocate
	dec decimal declare default deferrable deferred delete desc describe descriptor diagnostics
	disconnect distinct do domain double drop else end escape exception exec execute exists external
	extract fetch first float for foreign found from full get global go goto grant group having
	identity immediate index indicator initially inner input insensitive insert int integer interval
	into isolation join key language last left let level limit list local lower match max min missing
	modified module names national natural nchar new next no nothing null nullif numeric octet_length
	of old on only open option order outer output overlaps pad partial pivot position precision
	prepare preserve primary prior privileges procedure public read real references relative remove
	restrict returning revoke right rollback rows schema scroll section select session session_user
	set sexp size smallint some space sql sqlcode sqlerror sqlstate string struct substring sum symbol
	system_user table temporary then time timestamp to transaction translate translation trim tuple
	unique unknown unpivot update upper usage user using value values varchar varying view when
	whenever where with work write zone
`
