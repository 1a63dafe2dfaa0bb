package main

func Example() {
	main()
	// Output:
	// busy: ok after 2 retries
	// locked: true document_locked after 0 retries
	// closed: true
}
