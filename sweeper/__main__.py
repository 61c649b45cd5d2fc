from sweeper.app import main

main()
